"""A package, so that its helper can be imported by name from here and from the tests of the client."""
