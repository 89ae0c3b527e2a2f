"""Sessions: append-only histories and engine state that fork without copying, in memory or in a store."""
