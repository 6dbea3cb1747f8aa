"""Programs that measure pyxla beside its peers; never imported by the package or its tests."""
