"""Who computes, in which order: client data, the protocol, the in-process round loop, and the steps."""
