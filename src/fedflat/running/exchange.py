"""One round's exchanges: letters along chains of clients, by the clock if there is one, and replies folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import NoReturn, TypeVar

from fedflat.client.visit import Letter
from fedflat.clock.timetable import Ended, Visit
from fedflat.engine.mail import Mail, Replies, Reply, Sheaf, fold
from fedflat.engine.missing import Missing
from fedflat.executors.crew import Crew, Follower, Visited
from fedflat.running.attendance import TooFew, answers
from fedflat.running.letters import Letters, Line
from fedflat.running.reception import Reception, clients_of
from fedflat.running.relay import Relay
from fedflat.running.state import Ledger
from fedflat.running.timing import planned
from fedflat.server.piece import Send, asked_by
from fedflat.topology.crowd import Chain

T = TypeVar("T")


@dataclass(eq=False)
class Trip:
    """A mail on its way along the chains of a line."""

    line: Line
    mail: Mail
    relay: Relay
    lost: Mapping[Visit, Ended]
    """Visits that will not be made, by the clock."""
    now: dict[int, Letters] = field(default_factory=dict)
    """The letter that each chain is at."""


@dataclass
class Exchange:
    """The clients of a round as the server sees them: `along` gives each of its slots a gradient oracle."""

    crew: Crew
    reception: Reception
    """What becomes of each visit."""
    sent: dict[int, Mail] = field(default_factory=dict)
    """What was sent in earlier rounds and somebody is still at work on."""
    strict: bool = True
    """Whether deadlines and absences count; if not, the server waits for everybody who is asked."""

    def __post_init__(self) -> None:
        self.ready, self.clients = self.reception.ready, self.reception.clients
        self._start, self._met = self.ledger.clock or 0.0, False

    @property
    def ledger(self) -> Ledger:
        """What the run has cost so far."""
        return self.reception.ledger

    def along(self, slot: str, chains: Sequence[Chain]) -> Send:
        """What a slot sends its mail by, along these chains."""
        return partial(self._send, Line(slot, chains))

    def side_by_side(self, asked: Mapping[str, Sequence[Chain]], step: Callable[[str, Send], T]) -> dict[str, T]:
        """What each slot makes of what it sends its mail by; of several, those to whom too few reply make nothing.

        Where chains need not wait for each other, neither need slots that ask once each: a step is broken off where it
        asks, and made again with the answer.
        """
        once = all(piece.asks == 1 for piece in self.ready.exp.method.server)
        if len(asked) == 1 or not once or not self.ready.exp.topology.hands_on or not self._can_follow:
            return _enough((slot, partial(step, slot, self.along(slot, chains))) for slot, chains in asked.items())
        mails = {slot: asked_by(partial(step, slot)) for slot in asked}
        brought = self._send_at_once([(Line(slot, asked[slot]), mails[slot]) for slot in asked])
        return _enough((slot, partial(step, slot, came)) for slot, came in zip(asked, brought, strict=True))

    def _send(self, line: Line, mail: Mail) -> Replies:
        """One call, one exchange."""
        trip = self._begin(line, mail)
        return self._folded(trip, self._by_themselves([trip]) if self._follows(trip.relay) else self._in_waves(trip))

    def _send_at_once(self, mails: Sequence[tuple[Line, Mail]]) -> Iterator[Send]:
        """An exchange for each line, each as it has been made; workers go from one to the other."""
        trips = [self._begin(*one) for one in mails]
        ended = self._by_themselves(trips)
        for trip in trips:
            yield self._brought(trip, islice(ended, len(trip.relay.chains)))
        assert next(ended, None) is None

    def _brought(self, trip: Trip, ended: Iterable[tuple[Letters, Visited] | None]) -> Send:
        """An exchange that has been made, for whoever asks for it."""
        try:
            replies = self._folded(trip, ended)
        except TooFew as few:
            return partial(_raise, few)
        return lambda mail: replies

    def _begin(self, line: Line, mail: Mail) -> Trip:
        """A mail on its way."""
        self.clients.kept_by(self.crew, mail.round)
        mail = line.last = mail.after(line.last)
        line.count += 1
        lost = self._timed(line, mail)
        chains = line.reaching(mail)
        addressed = self.ready.addressed(mail, [chain[0] for chain in chains])
        return Trip(line, mail, Relay(addressed, chains, self._answered(mail)), lost)

    def _folded(self, trip: Trip, ended: Iterable[tuple[Letters, Visited] | None]) -> Replies:
        """What the server makes of the last visits of all chains."""
        exp = self.ready.exp
        weighting = exp.weighting or exp.method.weighting or "sized"
        rule = partial(exp.method.rule.of_round, trip.mail.round) if exp.method.rule else None
        population = len(self.ready.slots[trip.line.slot])
        replies = fold(trip.mail, self._taken(trip, ended), population=population, weighting=weighting, rule=rule)
        self.reception.ear.folded(replies)
        return replies

    def _taken(self, trip: Trip, ended: Iterable[tuple[Letters, Visited] | None]) -> Iterator[Reply | Sheaf]:
        """The replies of whole chains; nothing comes of a chain that broke off."""
        line, mail, relay, came = trip.line, trip.mail, trip.relay, 0
        counts = mail.commit and mail.ask.commits
        for letters, visited in filter(None, ended):
            found = self.reception.taken(line, relay, letters, visited, last=True)
            if found is None:
                continue
            reply, memory = found
            if isinstance(reply, Reply):
                reply = relay.whole(reply)
            answered = relay.sent.get(clients_of(reply)[0], mail)
            if counts:
                self.reception.stage(reply, memory | self.reception.heard(answered, reply))
            came += len(reply) if isinstance(reply, Sheaf) else 1
            yield self.ready.exp.topology.taken(mail, answered, reply) if relay.sent else reply
        self.reception.attendance.enough(mail.round, came)

    @property
    def _can_follow(self) -> bool:
        """Whether chains need not wait for each other; somebody who overhears visits hears them in their order."""
        listens = self.ready.exp.attack is not None and self.ready.exp.attack.listens
        return isinstance(self.crew, Follower) and not listens

    def _follows(self, relay: Relay) -> bool:
        return relay.longest > 1 and self._can_follow

    def _in_waves(self, trip: Trip) -> Iterator[tuple[Letters, Visited]]:
        """The last visits of chains, all of which go on together."""
        line, mail, relay, lost = trip.line, trip.mail, trip.relay, trip.lost
        for wave in relay:
            cohort = [client for client, sent in wave.mails.items() if (client, sent.visit) not in lost]
            letters = line.letters(self.clients, wave.mails, cohort)
            each = not wave.last or (mail.commit and mail.ask.commits and self.reception.hears_each)
            visits = answers(self.crew.visit(letters), letters.ids, mail, each=each)
            for visited in chain(letters.lost(lost), visits):
                if wave.last:
                    yield letters, visited
                else:
                    self._hand_on(line, relay, letters, visited)

    def _by_themselves(self, trips: Sequence[Trip]) -> Iterator[tuple[Letters, Visited] | None]:
        """The last visits of all chains of some trips, in their order, None where one broke off; each chain goes on as
        soon as its own visit has ended."""
        assert isinstance(self.crew, Follower)
        before = len(self.reception.attendance.missing)
        ways = [(trip, place) for trip in trips for place in range(len(trip.relay.chains))]
        begun = [way for way in ways if self._onward(*way)]

        def then(at: int, visited: Visited) -> Letter | None:
            trip, place = begun[at]
            if len(trip.relay.left(place)) == 1:
                if isinstance(visited, Missing):  # fail now, and not when the chains before it have ended
                    self.reception.attendance.check(trip.mail.round, visited)
                return None
            [one] = answers([visited], trip.now[place].ids, trip.mail, each=True)
            self._hand_on(trip.line, trip.relay, trip.now[place], one)
            return trip.now[place][0] if place not in trip.relay.broken and self._onward(trip, place) else None

        def left(at: int, made: int) -> float:
            trip, place = begun[at]
            return self.ready.samples(trip.mail.round, trip.relay.chains[place][made:])

        going = set(begun)
        visits = self.crew.follow([trip.now[place][0] for trip, place in begun], then, left)
        for trip, place in ways:
            visited = next(visits) if (trip, place) in going else None
            if visited is None or place in trip.relay.broken:
                yield None
            else:
                [one] = answers([visited], trip.now[place].ids, trip.mail, each=True)
                yield trip.now[place], one
        assert next(visits, None) is None
        order = [client for trip, place in ways for client in trip.relay.chains[place]]
        missed = self.reception.attendance.missing[before:]
        self.reception.attendance.missing[before:] = sorted(missed, key=lambda one: order.index(one.client))

    def _onward(self, trip: Trip, place: int) -> bool:
        """Write the next letter along a chain, if its client will answer."""
        client, sent = trip.relay.next(place)
        trip.now[place] = trip.line.letters(self.clients, {client: sent}, [client])
        for missing in trip.now[place].lost(trip.lost):
            self._hand_on(trip.line, trip.relay, trip.now[place], missing)
        return place not in trip.relay.broken

    def _hand_on(self, line: Line, relay: Relay, letters: Letters, visited: Visited) -> None:
        """A visit in the middle of a chain has ended."""
        found = self.reception.taken(line, relay, letters, visited, last=False)
        if found is None:
            return
        reply, memory = found
        assert isinstance(reply, Reply)
        mail = letters.mail_to(reply.client)
        if mail.commit and mail.ask.commits:
            self.reception.stage(reply, memory)
        relay.hand_on(reply)

    def _timed(self, line: Line, mail: Mail) -> Mapping[Visit, Ended]:
        """Let simulated time pass by an exchange; who will not answer. Who is asked and not needed leaves the line."""
        if self.ready.fleet is None:
            return {}
        sent = partial(self._bytes_to, line)
        fleet = self.ready.fleet if self.strict else self.ready.fleet.patient
        choose = mail.ask.trains and not line.chosen
        ends = self.ready.exp.topology.ends(self.ready.crowd, mail.round) if mail.ask.trains else None
        if ends is not None:
            self.reception.ledger = self.ledger.until((self.ready.beforehand.clock or 0.0) + ends)
            return {}
        if line.count == 1:
            line.clock = self._begins(line.slot, mail.round)
        busy = {int(client): until for client, until in self.ledger.busy.items()}
        plan = planned(self.ready, fleet, line.clock, mail, line.reaching(mail), sent, choose=choose, busy=busy)
        line.clock, line.chosen = plan.over, line.chosen or choose
        self.reception.ledger = self.ledger.until(plan.over, line.slot if len(self.ready.slots) > 1 else None)
        if self.ready.shares:
            free = {client: at for one in plan.ended for client, at in one.free.items()}
            self.reception.ledger = self.ledger.at_work({**busy, **free})
        for place in plan.surplus:
            self.reception.ledger = self.ledger.plus(down=sent(line.chains[place][0], mail), models_s2c=mail.models)
        line.chains = [chain for place, chain in enumerate(line.chains) if place not in plan.surplus]
        return plan.lost

    def _begins(self, slot: str, t: int) -> float:
        """When a slot's first exchange of round ``t`` begins: slots that have not met have clocks of their own."""
        if len(self.ready.slots) == 1:
            return self._start
        if not self._met and (t == 0 or self.ready.exp.topology.meets(self.ready.crowd, t - 1)):
            clocks = dict.fromkeys(self.ready.slots, self._start)
            self.reception.ledger, self._met = replace(self.ledger, clocks=clocks), True
        return self.ledger.clocks.get(slot, self._start)

    def _bytes_to(self, line: Line, client: int, mail: Mail) -> int:
        """Bytes of a mail to a client: of the part that stays with clients, only its first values, at a first visit."""
        own = self.ready.withheld * mail.params.element_size() if mail.ask.trains and client in self.clients else 0
        return (mail.after(None) if client in line.lacking else mail).nbytes - own

    def _answered(self, mail: Mail) -> dict[int, Mail]:
        """What those who reply in a round were sent, where that was in earlier ones too; counted when it is sent."""
        underway = self.ready.exp.topology.underway(self.ready.crowd, mail.round) if mail.ask.trains else None
        if underway is None:
            return {}
        n = len(underway.started)
        self.reception.ledger = self.ledger.plus(down=n * mail.nbytes, models_s2c=n * mail.models)
        rate = self.ready.exp.rate
        sent = {t: replace(old, lr=rate(t), ask=mail.ask) for t, old in self.sent.items()} | {mail.round: mail}
        self.sent = {t: one for t, one in sent.items() if t in underway.left}
        return {client: sent[t] for client, t in underway.since.items()}


def _raise(error: Exception, mail: Mail) -> NoReturn:
    raise error


def _enough(steps: Iterable[tuple[str, Callable[[], T]]]) -> dict[str, T]:
    """What comes of the steps of some slots, without those to whom too few replied; not even one is an error."""
    made, short = dict[str, T](), list[TooFew]()
    for slot, step in steps:
        try:
            made[slot] = step()
        except TooFew as few:
            short.append(few)
    if not made:
        raise short[-1]
    return made
