"""What executes jobs: Spark on a classic session, or over Spark Connect."""
