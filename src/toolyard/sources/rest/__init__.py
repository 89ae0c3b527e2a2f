"""OpenAPI and Swagger documents as tools."""
