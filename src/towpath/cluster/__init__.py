"""The cluster: who is in it and who shows as leader."""
