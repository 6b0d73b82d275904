"""The benchmark of readers: topics in Spark and in SQL, beside what others use."""
