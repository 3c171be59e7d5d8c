"""The store on one SQLite file, through apsw."""
