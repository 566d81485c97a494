"""What every study is made of: a computation, its rows on disk, and what they show."""
