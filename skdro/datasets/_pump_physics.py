"""Physics of a three-plunger reciprocating pump, vectorised over runs.

Crank.  The motor drives the crank at speed omega against the plungers and the bearings,
    J domega/dt = k (omega_sync - omega) - T_plungers - T_bearing,     dtheta/dt = omega,
an induction motor near its synchronous speed.  Plunger i sits at theta_i = theta + 2 pi i / 3; with crank
radius r and rod length L it has travelled
    x_i = r (1 - cos theta_i) + L - sqrt(L^2 - r^2 sin^2 theta_i)
from its inner end [1].  Its chamber has the volume V_i = V_dead + A x_i, and its torque is
(p_i - p_atm) A (-dx_i/dtheta).

Chambers.  Chamber i holds a volume W_i of liquid (referred to p_atm) and a fixed amount of gas; they share
the pressure p_i and fill the chamber [2]:
    W_i = (V_i - gas p_atm / p_i) (1 + (p_i - p_atm) / K),     dW_i/dt = q_inlet,i - q_outlet,i - q_leak,i.
The gas makes the chamber soft at low pressure: a starved chamber opens a cavity that has to collapse before
it delivers, which is how a blocked inlet costs flow.

Valves and orifices.  All flows follow  q = c a sign(dp) sqrt(2 |dp| / density)  [2].  A check valve is a
spring-loaded disc that follows its balance with a lag,
    tau dy/dt = clip((dp - p_crack) / p_span, 0, 1) - y,
so that it closes late and lets some liquid back [1].

Lines.  Suction: tank, lift, strainer (an orifice), then a soft hose,
    C_s(p_s) dp_s/dt = q_strainer - sum q_inlet.
Discharge: a manifold with compliance C, a hose with inertance I, and a throttle at its end [3]:
    C dp_m/dt = sum q_outlet - Q,     I dQ/dt = p_m - p_atm - R Q |Q|.
Q is the measured outlet flow.

Faults.  Leak: an orifice past the seal of the first plunger.  Blocked inlet: a smaller strainer.  Bearing:
more friction torque, which rubs once a turn,  b omega (1 + cos(theta) / 2).

Scheme.  Fixed steps.  The pressures of the chambers are stiff, so each step solves their balance
linearly implicitly, one scalar equation per chamber with the line pressures held (what the linearisation
leaves over is part of the next step's balance).  Liquid is conserved exactly because both sides of a valve
are charged the same flow.  The lines and the crank follow by semi-implicit Euler.  With steps of 1/20 ms the
flow is within 0.1 l/min (rms) of that with much smaller ones.

References
----------
[1] D. N. Johnston, "Numerical modelling of reciprocating pumps with self-acting valves", Proc. IMechE Part I
    205, 1991.
[2] H. E. Merritt, "Hydraulic Control Systems", Wiley, 1967 (orifices; compressibility with entrained gas).
[3] P. J. Singh, N. K. Madavan, "Complete analysis and simulation of reciprocating pumps including system
    piping", Proc. 4th International Pump Symposium, 1987.
"""

from dataclasses import dataclass, field

import numpy as np

ATMOSPHERE = 101325.0  # Pa
DENSITY = 1000.0  # kg/m3, water
DISCHARGE_COEFFICIENT = 0.65
# below this pressure difference (Pa) the square root is rounded off: flow is laminar and has a finite slope
LAMINAR_PRESSURE = 2000.0
PER_AREA = DISCHARGE_COEFFICIENT * np.sqrt(2 / DENSITY)  # flow per area and root of pressure difference
_PHASES = (2 * np.pi / 3 * np.arange(3))[:, np.newaxis]
_SINES, _COSINES = np.sin(_PHASES), np.cos(_PHASES)


@dataclass(frozen=True)
class PumpParameters:
    """The pump; every field is a float or an array of shape (n_runs,), in SI units.

    Radius 12 mm and stroke 31 mm displace 40.0 l/min at 950 rpm; the throttle then holds about 7 bar.
    """

    plunger_radius: float = 0.012  # m
    crank_radius: float = 0.0155  # m
    rod_length: float = 0.075  # m
    dead_volume: float = 10e-6  # m3, a chamber at the inner end of the stroke
    bulk_modulus: float = 1.5e9  # Pa, liquid and walls
    gas_volume: np.ndarray | float = 0.35e-6  # m3 at atmospheric pressure, a chamber
    synchronous_speed: np.ndarray | float = 2 * np.pi * 1000 / 60  # rad/s
    motor_slope: float = 1.08  # N m s, torque per slip
    inertia: float = 0.03  # kg m2, crank and motor
    bearing_friction: np.ndarray | float = 0.008  # N m s
    faulty_friction: np.ndarray | float = 0.0  # N m s
    valve_area: float = 1.6e-4  # m2, fully open
    valve_lag: float = 0.8e-3  # s
    valve_crack: float = 5e3  # Pa
    valve_span: float = 4e4  # Pa, from cracking to fully open
    leak_area: np.ndarray | float = 0.0  # m2, first plunger
    suction_lift: float = 15e3  # Pa, tank below the pump
    strainer_area: np.ndarray | float = 1.8e-4  # m2
    suction_gas: float = 2.0e-6  # m3 at atmospheric pressure, in the suction hose
    manifold_compliance: np.ndarray | float = 6e-13  # m3/Pa
    hose_inertance: float = 6e6  # kg/m4
    throttle: np.ndarray | float = 7e5 / 6.35e-4**2  # Pa s2/m6


@dataclass
class PumpState:
    """What evolves: (n_plungers, n_runs) for the chambers, (n_runs,) for the rest."""

    theta: np.ndarray
    omega: np.ndarray
    pressure: np.ndarray
    liquid: np.ndarray
    inlet_opening: np.ndarray
    outlet_opening: np.ndarray
    suction: np.ndarray
    manifold: np.ndarray
    flow: np.ndarray
    delivered: np.ndarray = field(init=False)  # m3 that passed the outlet valves, kept for balances

    def __post_init__(self):
        self.delivered = np.zeros_like(self.flow)


def start(pump: PumpParameters, theta: np.ndarray) -> PumpState:
    """A running pump near its working point, at crank angles `theta` of shape (n_runs,)."""
    n_runs = len(theta)
    volume, _ = chambers(pump, theta)
    inhaling = np.sin(theta + _PHASES) > 0
    pressure = np.where(inhaling, 0.7 * ATMOSPHERE, 8 * ATMOSPHERE)
    return PumpState(
        theta=theta.astype(float),
        omega=np.full(n_runs, 950 * 2 * np.pi / 60),
        pressure=pressure,
        liquid=_liquid(pump, volume, pressure),
        inlet_opening=inhaling.astype(float),
        outlet_opening=(~inhaling).astype(float),
        suction=np.full(n_runs, 0.7 * ATMOSPHERE),
        manifold=np.full(n_runs, 8 * ATMOSPHERE),
        flow=np.full(n_runs, 6.3e-4),
    )


def chambers(pump: PumpParameters, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Volume of the chambers and its slope in the crank angle, each (3, n_runs)."""
    area = np.pi * pump.plunger_radius**2
    # by the addition theorem: two trigonometric functions a run instead of six
    first_sine, first_cosine = np.sin(theta), np.cos(theta)
    sine = first_sine * _COSINES + first_cosine * _SINES
    cosine = first_cosine * _COSINES - first_sine * _SINES
    rod = np.sqrt(pump.rod_length**2 - (pump.crank_radius * sine) ** 2)
    travel = pump.crank_radius * (1 - cosine) + pump.rod_length - rod
    slope = pump.crank_radius * sine * (1 + pump.crank_radius * cosine / rod)
    return pump.dead_volume + area * travel, area * slope


def _liquid(pump, volume, pressure):
    gas = pump.gas_volume * ATMOSPHERE / pressure
    return (volume - gas) * (1 + (pressure - ATMOSPHERE) / pump.bulk_modulus)


def orifice(conductance, difference):
    """Flow through an orifice and its slope in the pressure difference (Pa), both finite at zero.

    `conductance` is the area times `PER_AREA`.
    """
    square = difference * difference
    rounded = square + LAMINAR_PRESSURE**2
    secant = conductance / np.sqrt(np.sqrt(rounded))
    return secant * difference, secant * (1 - 0.5 * square / rounded)


def _step_chambers(pump, state, volume, dt):
    """Solve the linearised balance of the chambers for their new pressures; returns inlet and outlet flows.

    The flows are those of the linearisation at the new pressures, the same in every balance they enter.
    """
    pressure = state.pressure
    q_in, slope_in = orifice((PER_AREA * pump.valve_area) * state.inlet_opening, state.suction - pressure)
    q_out, slope_out = orifice((PER_AREA * pump.valve_area) * state.outlet_opening, pressure - state.manifold)
    q_leak, slope_leak = orifice(PER_AREA * pump.leak_area, pressure[0] - ATMOSPHERE)
    net, slope = q_in - q_out, slope_in + slope_out
    net[0] -= q_leak
    slope[0] += slope_leak
    gas = pump.gas_volume * ATMOSPHERE / pressure
    squeeze = 1 + (pressure - ATMOSPHERE) / pump.bulk_modulus
    space = volume - gas
    excess = state.liquid + dt * net - space * squeeze
    stiffness = dt * slope + gas / pressure * squeeze + space / pump.bulk_modulus
    # a pressure stays positive: a step lowers it to a third at most
    rise = np.maximum(excess / stiffness, -2 / 3 * pressure)
    q_in -= slope_in * rise
    q_out += slope_out * rise
    state.pressure = pressure + rise
    state.liquid = state.liquid + dt * (q_in - q_out)
    state.liquid[0] -= dt * (q_leak + slope_leak * rise[0])
    return q_in, q_out


def step(pump: PumpParameters, state: PumpState, dt: float) -> None:
    """Advance all runs by `dt` seconds, in place."""
    state.theta = state.theta + dt * state.omega
    volume, slope = chambers(pump, state.theta)

    lag = dt / pump.valve_lag
    for side, difference in (
        ("inlet_opening", state.suction - state.pressure),
        ("outlet_opening", state.pressure - state.manifold),
    ):
        opening = getattr(state, side)
        balance = (difference - pump.valve_crack) * (1 / pump.valve_span)
        balance = np.minimum(np.maximum(balance, 0.0), 1.0)
        setattr(state, side, opening + lag * (balance - opening))

    q_in, q_out = _step_chambers(pump, state, volume, dt)

    supply, supply_slope = orifice(PER_AREA * pump.strainer_area, ATMOSPHERE - pump.suction_lift - state.suction)
    compliance = pump.suction_gas * ATMOSPHERE / state.suction**2
    drawn = q_in.sum(axis=0)
    state.suction = state.suction + dt * (supply - drawn) / (compliance + dt * supply_slope)
    pumped = q_out.sum(axis=0)
    state.delivered += dt * pumped
    state.manifold = state.manifold + dt * (pumped - state.flow) / pump.manifold_compliance
    resistance = pump.throttle * np.abs(state.flow)
    push = state.flow + dt * (state.manifold - ATMOSPHERE) / pump.hose_inertance
    state.flow = push / (1 + dt * resistance / pump.hose_inertance)

    torque = -((state.pressure - ATMOSPHERE) * slope).sum(axis=0)
    friction = pump.bearing_friction + pump.faulty_friction * (1 + 0.5 * np.cos(state.theta))
    drive = pump.motor_slope * (pump.synchronous_speed - state.omega)
    state.omega = state.omega + dt * (drive - torque - friction * state.omega) / pump.inertia
