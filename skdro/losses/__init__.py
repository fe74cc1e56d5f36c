"""What one record costs: values, subgradients and per-record gradient norms. Pure numpy, stateless."""
