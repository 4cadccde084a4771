"""Training methods by name: who reads whom, and what each player earns."""
