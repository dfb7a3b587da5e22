"""The only package that knows of devices and of several processes."""
