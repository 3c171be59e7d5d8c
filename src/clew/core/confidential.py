"""Paths of files that may hold secrets: keys, passwords, cookies. Only the path is looked at."""

from __future__ import annotations

import re
from typing import Final

CONFIDENTIAL: Final = r"""
      # what programs keep credentials in
      (?: ^ | / ) (?: \.ssh | \.aws | \.azure | \.gnupg | \.kube | \.password-store | [._]netrc
        | \.env[^/]* | \.pgpass | \.my\.cnf | \.pypirc | \.git-credentials
        | \.docker/config\.json | \.config/(?: gcloud | gh ) | \.local/share/keyrings
        | Library/Keychains | gateway\.token ) (?: / | $ )
      # private keys
    | (?: ^ | / ) (?: id_(?: rsa | dsa | ecdsa | ed25519 )(?: _sk )?
        | [^/]+ \. (?: pem | key | p12 | pfx | ppk | jks | keystore | kdbx ) ) $
      # profiles of browsers and mail programs
    | (?: ^ | / ) (?: \.mozilla | \.librewolf | \.thunderbird
        | \.config/(?: google-chrome[^/]* | chromium | BraveSoftware | microsoft-edge[^/]* | vivaldi
          | opera )
        | snap/(?: firefox | chromium )
        | \.var/app/(?: org\.mozilla\.[^/]+ | com\.google\.Chrome | org\.chromium\.Chromium
          | com\.brave\.Browser )
        | Library/Safari
        | Library/Application\ Support/(?: Google/Chrome | Chromium | Firefox | BraveSoftware
          | Microsoft\ Edge | Vivaldi )
        | AppData/(?: Local | Roaming )/(?: Google/Chrome | Mozilla | Microsoft/Edge
          | BraveSoftware ) ) (?: / | $ )
    | (?: ^ | / ) (?: cookies\.sqlite | logins\.json | key[34]\.db | Login\ Data ) $
      # of the system
    | ^ /etc/(?: shadow | gshadow | sudoers )
    | ^ /proc/ (?: .* / )? (?: environ | mem ) $
"""
"""A pattern in verbose form; the case of letters does not matter."""

_CONFIDENTIAL: Final = re.compile(CONFIDENTIAL, re.VERBOSE | re.IGNORECASE)


def is_confidential(path: str) -> bool:
    """Whether a path, with slashes, is that of such a file or lies in such a directory."""
    return _CONFIDENTIAL.search(path) is not None
