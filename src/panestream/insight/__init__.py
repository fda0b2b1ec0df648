"""Show and explain queries: pages, pictures, reports, advice, live views. Nothing that runs a query imports this package."""
