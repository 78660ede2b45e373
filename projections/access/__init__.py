"""Who asks, and what they may: identities of requests, the rule of the API, and what limited readers see."""
