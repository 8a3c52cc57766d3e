//! Linux-style memory management as a no_std core, generic over its host.
