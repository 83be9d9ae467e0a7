"""Programs that show mqredis at work with others; the tests run them."""
