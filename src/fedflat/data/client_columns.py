"""Known properties of clients by name: the facets of their examples' domains."""

from __future__ import annotations

from fedflat.data.federation import Federation
from fedflat.errors import SettingError, nearest


def facets(fed: Federation) -> tuple[str, ...]:
    domains = fed.test.domains or (fed.data(0).domains if fed.here else None)
    return domains.facets if domains else ()


def column(fed: Federation, name: str) -> list[str]:
    """The value of a facet for each client; an error if it is unknown or not unique per client.

    >>> from fedflat import street
    >>> sorted(column(street(towns=2, weather="rain,sun", clients=4).open(0), "weather"))
    ['rain', 'rain', 'sun', 'sun']
    """
    known = facets(fed)
    if name not in known:
        raise SettingError(
            f"these data have no column {name!r}.{nearest(name, known)} "
            + (
                f"They have {', '.join(known)}."
                if known
                else "They say nothing of where clients are from."
            )
        )
    return [_value(fed, client, known.index(name), name) for client in range(fed.population)]


def _value(fed: Federation, client: int, place: int, name: str) -> str:
    domain = fed.domain(client)
    if domain:
        return domain[place]
    domains = fed.data(client).domains
    values = sorted({one[place] for one in domains.each}) if domains else []
    if len(values) != 1:
        description = (
            f"several ({', '.join(values[:3])}{', ...' if len(values) > 3 else ''})"
            if values
            else "none"
        )
        raise SettingError(
            f"clients cannot be grouped by {name!r}, since client {client} has {description}. "
            "Partition the data so that every client has one."
        )
    return values[0]
