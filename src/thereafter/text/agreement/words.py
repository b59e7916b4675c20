"""The raw word lists, and nothing else. `mouse/mice` writes out a plural, `sing/sang/sung` past and participle.

Left out on purpose: nouns with one form (sheep), words that are both noun and verb here (watch, cook, leaf/leaves
beside the verb leave), verbs whose past looks like their present (put, cut, read), words that mark number (a, this,
each), `or` and `nor` except where they close `either` and `neither`.
"""

from __future__ import annotations

PEOPLE = """
farmer teacher doctor lawyer painter singer writer baker driver neighbor student child/children friend cousin pilot
sailor tourist visitor engineer scientist gardener artist musician poet dancer customer librarian senator mayor
carpenter tailor banker clerk secretary journalist editor author critic detective thief/thieves hunter stranger
traveler surgeon dentist chemist professor scholar merchant miner shepherd barber butcher
"""
MEN = """
man/men boy king prince father brother son uncle nephew grandfather waiter actor monk wizard gentleman/gentlemen
husband
"""
WOMEN = """
woman/women girl queen princess mother sister daughter aunt niece grandmother waitress actress nun witch lady wife/wives
"""
ANIMALS = """
dog cat horse cow pig mouse/mice goose/geese wolf/wolves fox rabbit lion tiger elephant monkey donkey goat eagle owl
sparrow pigeon parrot snake frog turtle whale dolphin shark squirrel hamster puppy kitten calf/calves lamb camel
spider penguin otter lizard crocodile hedgehog
"""
THINGS = """
table chair lamp book letter picture mirror clock bottle cup knife/knives spoon basket box key coin necklace candle
violin piano guitar trumpet camera computer car truck bicycle boat wagon engine wheel ladder umbrella hat coat glove
scarf/scarves blanket pillow carpet curtain vase statue trophy medal crown sword loaf/loaves potato/potatoes apple
"""
PLACES = """
house garden castle tower bridge station school church library museum hotel restaurant factory lake river mountain
valley island village city harbor airport theater palace temple cottage barn
"""

LIVING_VERBS = """
walk sleep/slept/slept dance laugh smile cry wait swim/swam/swum jump wander listen dream rest kneel/knelt/knelt
play hide/hid/hidden arrive leave/left/left return hesitate escape stumble tremble shiver yawn snore eat/ate/eaten
drink/drank/drunk win/won/won fall/fell/fallen sit/sat/sat cough limp hurry relax struggle sing/sang/sung
"""
HUMAN_VERBS = "argue pray whistle complain whisper agree write/wrote/written speak/spoke/spoken travel work gossip"
THING_VERBS = """
fall/fell/fallen break/broke/broken vanish shine/shone/shone rattle crack fade move sink/sank/sunk glow disappear
matter remain burn glitter squeak
"""
PLACE_VERBS = "remain vanish shine/shone/shone fade burn collapse matter exist glow disappear decay"
TRANSITIVE_VERBS = """
see/saw/seen like love hate watch follow admire remember forget/forgot/forgotten notice find/found/found
know/knew/known need want fear ignore protect avoid miss recognize trust prefer/preferred/preferred defend enjoy
"""
AFFECTING_VERBS = "please frighten surprise impress bother delight annoy confuse amuse fascinate disappoint attract"
REFLEXIVE_VERBS = "see/saw/seen hate admire protect trust defend blame praise help amuse forgive/forgave/forgiven"
SAYING = ("said", "whispered", "shouted", "wrote", "answered", "repeated")
KNOWING = ("knew", "remembered", "forgot", "noticed", "learned", "heard", "explained", "discovered")

AUXILIARIES = (("is", "are"), ("was", "were"), ("has", "have"))
REFLEXIVE_PLURAL = "themselves"
FILLERS = ("what", "who")  # after these the object of the verb is missing
COMPLEMENTIZER = "that"  # after this it is there
OBJECTS = ("him", "them", "it", "me", "us", "you")  # no `her`, which may begin a longer object
WHEN = ("yesterday", "today", "tonight", "recently", "earlier", "afterwards")
CHOICES = (("either", "or"), ("neither", "nor"))
QUOTES = (("“", "”"), ("‘", "’"))
BRACKETS = (("(", ")"), ("[", "]"))

DETERMINERS = ("the", "the", "the", "the", "my", "your", "his", "her", "our", "their")
SUBJECT_DETERMINERS = (*DETERMINERS, "some", "no")
OPENINGS: tuple[tuple[str, ...], ...] = (
    ("indeed", ","),
    ("however", ","),
    ("of", "course", ","),
    ("as", "usual", ","),
    ("perhaps",),
    ("i", "think", "that"),
    ("you", "said", "that"),
    ("we", "heard", "that"),
)
ADJECTIVES = """
old new big small beautiful strange famous quiet red blue green brown gray white black tall tiny huge heavy ugly dirty
clean lovely curious remarkable ordinary dreadful splendid
"""
LIVING_ADJECTIVES = "young clever gentle brave lonely shy friendly happy lazy hungry"
LIVING_STATES = """
tired hungry happy sad angry afraid asleep awake ready late busy calm proud ill thirsty nervous lonely famous
"""
THING_STATES = "old dusty wet dry expensive dirty clean useful rare safe ugly beautiful heavy new famous"
PLACE_STATES = "old quiet empty noisy dark safe ugly beautiful famous crowded dirty new"
INTENSIFIERS = ("very", "rather", "quite", "so")
OFTEN = "often still always never rarely usually sometimes really clearly probably certainly obviously"
OFTEN_PAIRS = (
    ("almost", "always"),
    ("almost", "never"),
    ("quite", "often"),
    ("very", "rarely"),
    ("very", "often"),
    ("once", "again"),
)
MANNER = "quietly slowly quickly loudly happily sadly carefully suddenly gently calmly"
THING_MANNER = ("again", "forever", "too", "alone", "already")  # never `together`, which hints at a plural
HERE = ("nearby", "outside", "inside", "upstairs", "downstairs", "here", "there")
PLACE_HERE = ("nearby", "here", "there")
HERE_PAIRS = (("over", "there"), ("right", "here"), ("down", "there"), ("up", "there"))
AGAIN_PAIRS = (("once", "more"), ("at", "last"), ("at", "once"), ("for", "once"))
MODALS = ("would", "could", "might", "should", "must")
EXCLAMATIONS = ("yes", "never", "enough", "nonsense", "always")
EXCLAMATION_PAIRS = (("not", "here"), ("not", "yet"), ("of", "course"), ("never", "again"))

Prepositions = tuple[tuple[str, ...], ...]  # the first of each is one word, for where there is room for no more
BESIDE: Prepositions = (("near",), ("beside",), ("behind",), ("next", "to"), ("close", "to"), ("opposite",))
WITH: Prepositions = (("with",), ("without",), *BESIDE)
AMONG_THINGS: Prepositions = (("with",), ("under",), *BESIDE)
IN_PLACES: Prepositions = (
    ("in",),
    ("at",),
    ("from",),
    ("inside",),
    ("near",),
    ("behind",),
    ("close", "to"),
    ("far", "from"),
)
