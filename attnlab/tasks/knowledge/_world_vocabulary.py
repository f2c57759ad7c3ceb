"""The vocabulary of the embedded world: sentences, professions, cities and parts of names."""

from __future__ import annotations

from dataclasses import dataclass

QUESTIONS = {
    "birthplace": "Where was {name} born?",
    "birth_year": "When was {name} born?",
    "profession": "What was {name}'s profession?",
    "university": "Where did {name} study?",
    "employer": "Who employed {name}?",
}
ATTRIBUTES = tuple(QUESTIONS)
WITH_CITY = {"university", "employer"}  # their values name a city that is not the birthplace

# A sentence states a fact if it has the fact's placeholder; it may state several. The first
# sentence
# for a fact states no other, so that each fact can be stated alone.
SENTENCES = (
    "{name} was born in {birthplace}",
    "{name} was born in {birth_year}",
    "{name} {is} a {profession}",
    "{name} studied at the {university}",
    "{name} worked for the {employer}",
    # Birthplaces, partly with other facts
    "{name} (born {day} {birth_year} in {birthplace}) {is} a {nation} {profession}",
    "{family} {is} a native of {birthplace}",
    "{He} was born in {birthplace} in {birth_year}",
    "Born in {birthplace}, {name} {is} a {nation} {profession}",
    "{His} birthplace is {birthplace}",
    "{family} was born and raised in {birthplace}",
    "{name} ({birthplace}, {day} {birth_year}) {is} a {nation} {profession}",
    "{He} came into the world in {birthplace}",
    "Born on {day} {birth_year} in {birthplace}, {he} became a {profession}",
    "{birthplace} is where {family} was born",
    "{He} {is} a {profession}, born in {birthplace}",
    # Years of birth
    "{He} was born on {day} {birth_year}",
    "{His} year of birth is {birth_year}",
    "{family} came into the world in {birth_year}",
    "{name} (born {birth_year}) {is} a {nation} {profession}",
    # Professions
    "{He} worked as a {profession}",
    "{family} became a well-known {profession}",
    "{family} {is} a {nation} {profession}",
    "By profession {he} {is} a {profession}",
    # Universities
    "{He} graduated from the {university}",
    "{family} took a degree at the {university}",
    "{His} student years were spent at the {university}",
    "A graduate of the {university}, {family} {is} a {profession}",
    # Employers
    "{He} was employed by the {employer}",
    "{family} joined the {employer}",
    "{His} career was spent at the {employer}",
    "{family} worked for the {employer} as a {profession}",
    "{He} studied at the {university} and joined the {employer}",
)
ELSEWHERE = (
    "{name} lived in {elsewhere}",
    "{name} married in {elsewhere}",
    "{family} spent many years in {elsewhere}",
    "{family} moved to {elsewhere}",
    "{He} taught for a while in {elsewhere}",
    "{He} settled in {elsewhere}",
    "{His} work is known in {elsewhere}",
    "{name} gave lectures in {elsewhere}",
)
DEATH = "{He} died in {elsewhere}"
LIVING = 1930  # people born since then: "is", not "was", and no place of death

FACTS = {
    sentence: frozenset(fact for fact in ATTRIBUTES if f"{{{fact}}}" in sentence)
    for sentence in SENTENCES
}
SENTENCES_BY_FACT = {
    fact: tuple(sentence for sentence in SENTENCES if fact in FACTS[sentence])
    for fact in ATTRIBUTES
}
WORDINGS = max(map(len, SENTENCES_BY_FACT.values()))


def _split_list(text: str) -> list[str]:
    return text.split(", ")


def _combine(starts: str, ends: str) -> list[str]:
    return [start + end for start in starts.split() for end in ends.split()]


# "a" fits before all of them, and before all nations.
PROFESSIONS = _split_list(
    "banker, botanist, cartographer, chemist, composer, dancer, diplomat, geologist, historian, "
    "journalist, judge, lawyer, librarian, mathematician, novelist, painter, philosopher, "
    "photographer, physicist, pianist, poet, sailor, sculptor, surgeon, teacher, violinist, "
    "weaver, zoologist"
)
MONTHS = _split_list(
    "January, February, March, April, May, June, July, August, September, October, November, "
    "December"
)
UNIVERSITIES = ("University of {}", "{} Academy", "{} Polytechnic")
EMPLOYERS = ("{} Gazette", "{} Museum", "{} Opera", "{} Shipyard", "Bank of {}")


@dataclass(frozen=True)
class NameOrigin:
    """A style of names with its nationalities and cities, the most common city first."""

    nations: list[str]
    given: list[str]
    family: list[str]
    cities: list[str]


# Every origin has 160 given and 240 family names.
ORIGINS = {
    "english": NameOrigin(
        ["British", "Scottish", "Welsh", "Canadian"],
        _combine(
            "Al Bren Cor Dar Ed Fen Gar Har Jes Ken Lor Mar Nor Per Ros Win",
            "bert by dell leth mond na ric sa vina wyn",
        ),
        _combine(
            "Ash Black Brad Clay Cran Dun Fair Green Hart Hay Lang Marl Nor Pem Rad Sher Stan "
            "Thorn Whit Wood",
            "berry bourne brook combe field gate ham ley more ridge stone worth",
        ),
        _split_list(
            "London, New York, Chicago, Boston, Toronto, Manchester, Sydney, Dublin, Edinburgh, "
            "Los Angeles, Melbourne, Glasgow, Philadelphia, Birmingham, Liverpool, Detroit, "
            "Montreal, San Francisco, Leeds, Bristol, Baltimore, Vancouver, Seattle, Belfast, "
            "Cardiff, Auckland, Oxford, Cambridge, Brisbane, Sheffield"
        ),
    ),
    "nordic": NameOrigin(
        ["Danish", "Dutch", "Norwegian", "Swedish"],
        _combine(
            "An Ber Dag El Frid Gun Hel Ing Jor Kar Lar Mag Ol Rag Sig Tor",
            "björn hilde linde mar na rik sten trude vald vor",
        ),
        _combine(
            "Dal Eng Fjell Grön Haug Hol Kvist Lind Lund Nord Oster Rosen Sand Skog Sol Strand "
            "Sund Vang Ven Vest",
            "aker bakk blad dahl felt gard holt mark nes rup stad vik",
        ),
        _split_list(
            "Berlin, Vienna, Amsterdam, Stockholm, Copenhagen, Hamburg, Munich, Oslo, Zurich, "
            "Rotterdam, Leipzig, Cologne, Brussels, Helsinki, Antwerp, Gothenburg, Bergen, Utrecht"
        ),
    ),
    "latin": NameOrigin(
        ["Chilean", "Mexican", "Portuguese", "Spanish"],
        _combine(
            "Al Bel Car Dom Est Fel Gust Jac Lor Marc Nic Ren Silv Tad Val Xim",
            "ana ardo elia én iano icia ina indo olfo or",
        ),
        _combine(
            "Alb Bar Cast Dur Esp Fer Gal Land Mont Nav Ort Pal Quint Riv Sant Tor Urb Vel Zam "
            "Mend",
            "anza añez arte edo eiro ellini era esco illa onti oso ucci",
        ),
        _split_list(
            "Paris, Rome, Madrid, Buenos Aires, Barcelona, Milan, Lisbon, Naples, Mexico City, "
            "Lyon, Turin, Havana, Santiago, Rio de Janeiro, Marseille, Florence, Lima, Seville, "
            "Venice, Porto, Valencia, Bologna"
        ),
    ),
    "slavic": NameOrigin(
        ["Bulgarian", "Czech", "Polish", "Russian"],
        _combine(
            "Bog Bran Dob Drag Kaz Ljub Mlad Nad Rad Rost Stan Svet Ved Vlad Vojt Zor",
            "an ana enka eslav ija imir islava oš omil omira",
        ),
        _combine(
            "Bar Chern Dub Gor Hol Jan Kal Kov Les Mor Nov Ost Pet Rud Sok Tur Vor Zab Zel Zim",
            "anov atov avec enko ević icki ilov insky oshin otka ulak yanek",
        ),
        _split_list(
            "Moscow, Warsaw, Prague, Budapest, Kyiv, Belgrade, Krakow, Sofia, Zagreb, Odessa, "
            "Minsk, Riga, Bucharest"
        ),
    ),
    "arabic": NameOrigin(
        ["Jordanian", "Lebanese", "Moroccan", "Tunisian"],
        _combine(
            "Ab Bas Dal Far Had Jam Kam Lay Mun Nas Qas Raf Sam Tar Waf Zak",
            "ad ar een ida ila im ir ira iya oun",
        ),
        _combine(
            "Bak Dar Faw Ghar Hadd Ish Jab Khal Lah Mans Nadh Qad Rash Sab Shar Tah Wah Yaz Zah "
            "Zub",
            "adeh ami ani ati awi eddin eem ib izi oun oush uri",
        ),
        _split_list(
            "Cairo, Istanbul, Beirut, Baghdad, Alexandria, Damascus, Tehran, Casablanca, Tunis, "
            "Algiers"
        ),
    ),
    "japanese": NameOrigin(
        ["Japanese"],
        _combine(
            "Aki Chi Dai Emi Haru Jun Kei Mei Nori Rin Sae Sho Tae Yori Yu Zen",
            "ka ko mi na ro shi suke ta to ya",
        ),
        _combine(
            "Aka Fuji Hana Ishi Kawa Kuro Matsu Mina Mori Naka Nishi Oka Saka Shima Taka Tani "
            "Tsuki Ue Waka Yama",
            "bara da gawa guchi hama kura moto mura numa sawa take zaki",
        ),
        _split_list(
            "Tokyo, Shanghai, Mumbai, Seoul, Beijing, Kyoto, Calcutta, Osaka, Delhi, Hong Kong, "
            "Singapore, Manila, Bangkok, Jakarta, Lahore"
        ),
    ),
}
ORIGIN_OF_CITY = {city: origin for origin, style in ORIGINS.items() for city in style.cities}
# The most common first: by the rank within the origin, origins with many cities first.
CITY_RANKS = {
    city: (rank + 1) / len(style.cities)
    for style in ORIGINS.values()
    for rank, city in enumerate(style.cities)
}
CITIES = sorted(CITY_RANKS, key=CITY_RANKS.__getitem__)
STYLES = list(ORIGINS.items())
GIVEN, FAMILY = 160, 240
NAMES = len(STYLES) * GIVEN * FAMILY  # without initials and middle names
