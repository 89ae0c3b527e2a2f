"""What has happened: append-only histories that fork and roll back at no cost, in memory or on disk."""
