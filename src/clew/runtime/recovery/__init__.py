"""What a crash left, and who goes on with it.

`recovery` is for one session, which a terminal opens; `takeover` is for a gateway, which goes on
with everything that came from channels and the API.
"""
