"""Words in text: splitting identifiers, English plurals and verbs, and finding secrets."""
