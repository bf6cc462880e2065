"""From a request to a running trace."""
