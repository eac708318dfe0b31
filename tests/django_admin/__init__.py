"""The admin's pages, through the client."""
