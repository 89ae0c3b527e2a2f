"""Words of identifiers: how names are split and compared, what one thing is called, what verbs do."""
