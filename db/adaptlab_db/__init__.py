"""Tables, sessions, migrations and the artifact store; may use `adaptlab` (torch-free) only."""
