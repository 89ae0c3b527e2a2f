"""OpenAPI and Swagger documents, read into operations; one noun of the format a file."""
