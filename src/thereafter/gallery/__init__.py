"""Every picture of the books from models it trains itself: `thereafter gallery`."""
