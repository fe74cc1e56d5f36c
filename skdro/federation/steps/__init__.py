"""One file per family of algorithms, both halves together: what a client does and what the server does."""
