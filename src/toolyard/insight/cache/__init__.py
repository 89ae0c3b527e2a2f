"""What enrichments have worked out, kept between runs in one SQLite file."""
