"""What nature may change: transport costs and their dual norms, label flips, worst cases."""
