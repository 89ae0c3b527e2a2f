"""Programs and people over a wire: the seed's HTTP API, ARP, the native API, and a first page."""
