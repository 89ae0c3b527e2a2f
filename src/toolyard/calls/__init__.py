"""The one call path: bind, policy, engine, output check, record, trace."""
