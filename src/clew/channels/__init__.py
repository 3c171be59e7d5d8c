"""Channels: one module for each platform that people write on (`ports.Channel`).

To add a channel, write a module like `webhook` and build it in `wiring`. A channel knows its
platform only; sessions, keys, turns and the configuration file are not its business.
"""
