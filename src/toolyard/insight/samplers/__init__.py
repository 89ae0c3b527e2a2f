"""The samplers that come with toolyard, one topology a file."""
