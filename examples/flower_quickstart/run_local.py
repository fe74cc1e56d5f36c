"""The whole study on one machine: a SuperLink and three SuperNodes as processes on 127.0.0.1, each with its own CSV.

    python run_local.py WORKDIR                     one undisturbed run; the model is WORKDIR/plain/model.joblib
    python run_local.py WORKDIR --scenario killed   site "south" is killed in round 5 and restarted in round 10
    python run_local.py WORKDIR --scenario raising  site "south" cannot read its data
    python run_local.py WORKDIR --scenario lonely   asks for four sites where there are three
    python run_local.py WORKDIR --scenario all      all four, and what became of each

Prints one line of JSON a scenario.  Nothing is left running, whatever happens.
"""

import argparse
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

from skdro.losses.crammer_singer import margin_violations

HERE = Path(__file__).parent
SITES = ("east", "north", "south")
MISSING = "patient-4711.csv"  # a name that must not reach the server
CHANGED = {
    "lonely": {"min-clients": 4, "start-timeout": 60.0},
    "raising": {"min-clients": 2, "n-rounds": 3},
}  # keys of the run_config
N_ROWS = 3000
TELLING = ("RuntimeError", "could not answer", "sites replied", "no answer within")  # what the server's log may say
LIMIT = 1800.0  # seconds that a run may take


def make_data(directory: Path) -> pd.DataFrame:
    """One CSV a site; returns held-out records."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0, 0.0, 0.0], [1.5, 0.0, 0.5, 0.0], [0.0, 1.5, 0.0, 0.5]])

    def table(n_rows, shift):
        label = rng.integers(0, 3, n_rows)
        X = np.clip(centres[label] + shift + rng.normal(scale=0.7, size=(n_rows, 4)), -3, 3)
        return pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(label=label)

    directory.mkdir(parents=True, exist_ok=True)
    for shift, site in zip((-0.1, 0.0, 0.1), SITES, strict=True):
        table(N_ROWS, shift).to_csv(directory / f"{site}.csv", index=False)
    return table(10_000, 0.0)


def free_ports(n: int) -> list[int]:
    """Ports that nobody listens on; all are held until the last is known."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Processes:
    """The processes of one federation, each in a group of its own, with its output in a file."""

    def __init__(self, directory: Path):
        self.directory = directory
        # Flower's commands, and whatever Python they start, come from the environment of this one
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self.env = {
            **os.environ,
            "PATH": path,
            "FLWR_HOME": str(directory / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",  # seconds; Flower looks for work every second by default
            "OMP_NUM_THREADS": "1",
            "NO_COLOR": "1",
        }
        self.running: dict[str, subprocess.Popen] = {}

    def start(self, name: str, *command: str) -> None:
        with open(self.directory / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.env,
                cwd=HERE,
                start_new_session=True,
            )

    def kill(self, name: str, how: int = signal.SIGKILL) -> None:
        process = self.running.pop(name)
        try:
            os.killpg(process.pid, how)
            process.wait(10)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def flwr(self, *arguments: str) -> dict:
        """Output of a flwr command, as JSON."""
        done = subprocess.run(
            ["flwr", *arguments, "--format", "json"],
            env=self.env,
            capture_output=True,
            text=True,
            cwd=HERE,
            timeout=300,
        )
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise RuntimeError(f"flwr {arguments[0]} failed: {done.stdout}{done.stderr}") from None

    def follow(self, run_id: str) -> None:
        """Write what the ServerApp says into server.log; ends with the run, and is cheaper than asking for it."""
        self.start("server", "flwr", "log", run_id, "local", "--stream")

    def has_ended(self, name: str) -> bool:
        """Whether a process is gone."""
        return self.running[name].poll() is not None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in reversed(list(self.running)):
            self.kill(name, signal.SIGTERM)


def wait_for(condition, limit: float, what: str, pause: float = 0.25):
    """The first true value of `condition()`, looked at every `pause` seconds."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(pause)
    raise TimeoutError(f"{what}: not within {limit:g} s")


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def last_round(state_dir: Path) -> int:
    """Number of the last round that a site has answered, from its checkpoint."""
    files = list(state_dir.glob("run-*.state"))
    return pickle.loads(files[0].read_bytes()).sent if files else -1


def run(directory: Path, data: Path, *, scenario: str, private: bool, more: str = "") -> dict:
    """One run; what became of it.  `more` are further keys of the run_config, as text."""
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "flwr").mkdir(parents=True)
    port, *node_ports = free_ports(1 + len(SITES))
    (directory / "flwr" / "config.toml").write_text(
        f'[superlink]\ndefault = "local"\n\n[superlink.local]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    states = {site: directory / f"state-{site}" for site in SITES}
    began = time.monotonic()

    with Processes(directory) as processes:

        def start_node(site):
            name = MISSING if scenario == "raising" and site == "south" else f"{site}.csv"
            config = {"site-name": site, "data": str(data / name), "state-dir": str(states[site])}
            config |= {"max-epsilon": 5.0} if private else {}
            text = " ".join(
                f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in config.items()
            )
            processes.start(
                site, "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}",
                "--port", str(node_ports[SITES.index(site)]), "--node-config", text,
            )  # fmt: skip

        processes.start("superlink", "flower-superlink", "--insecure", "--port", str(port))
        wait_for(lambda: listens(port), 60, "SuperLink")
        for site in SITES:
            start_node(site)
        model = directory / "model.joblib"
        settings = {"private": private, "out": str(model)}
        settings |= CHANGED.get(scenario, {})
        overrides = " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items())
        overrides = f"{overrides} {more}".strip()
        run_id = str(processes.flwr("run", ".", "local", "--run-config", overrides)["run-id"])

        processes.follow(run_id)

        def status():
            return processes.flwr("ls", "local", "--run-id", run_id)["runs"][0]["status"]

        if scenario == "killed":
            wait_for(lambda: last_round(states["south"]) >= 4, LIMIT, "round 5")
            spent = ledger(states["south"])
            processes.kill("south")
            wait_for(lambda: last_round(states["north"]) >= 9, LIMIT, "round 10")
            start_node("south")
        wait_for(lambda: processes.has_ended("server"), LIMIT, "the end of the run")
        ended = wait_for(lambda: (s := status()).startswith("finished") and s, 300, "the end of the run", pause=2.0)
    log = (directory / "server.log").read_text(errors="replace")
    result = {
        "scenario": scenario,
        "private": private,
        "status": ended,
        "seconds": round(time.monotonic() - began, 1),
        "leaked": MISSING in log + (directory / "superlink.log").read_text(errors="replace"),
        "told": [line.strip() for line in log.splitlines() if any(part in line for part in TELLING)][-6:],
    }
    if private:
        result["charged"] = {site: len(ledger(states[site])) for site in SITES}
    if scenario == "killed" and private:
        result["ledger_intact"] = ledger(states["south"])[: len(spent)] == spent
    if model.exists():
        result |= summary(joblib.load(model), pd.read_csv(data / "held-out.csv"))
    return result


def ledger(state_dir: Path) -> list[str]:
    path = state_dir / "ledger.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def summary(model, held_out: pd.DataFrame) -> dict:
    """Held-out loss, and who replied: the rounds that each site missed."""
    X, y = held_out.drop(columns="label"), held_out["label"].to_numpy()
    loss, _ = margin_violations(model.decision_function(X), y)
    attempt, replied = model.history_["attempt"], model.history_["replied"]
    missed = {str(site): attempt[~replied[:, g]].tolist() for g, site in enumerate(model.clients_)}
    return {
        "held_out_loss": float(loss.mean()),
        "accuracy": float(model.score(X, y)),
        "rounds": int(model.n_iter_),
        "missed": missed,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workdir", type=Path)
    parser.add_argument("--scenario", choices=["plain", "killed", "raising", "lonely", "all"], default="plain")
    parser.add_argument("--exact", action="store_true", help="the estimator without privacy")
    parser.add_argument("--run-config", default="", help="further keys, such as 'round-timeout=300.0'")
    arguments = parser.parse_args()
    workdir = arguments.workdir.resolve()
    make_data(workdir / "data").to_csv(workdir / "data" / "held-out.csv", index=False)
    scenarios = ["plain", "killed", "raising", "lonely"] if arguments.scenario == "all" else [arguments.scenario]
    for scenario in scenarios:
        result = run(
            workdir / scenario,
            workdir / "data",
            scenario=scenario,
            private=not arguments.exact,
            more=arguments.run_config,
        )
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
