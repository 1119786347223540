"""The parameters of the twins: the figures of the paper's table, and what was fitted so that the twin has them.

docs/twins.md has both side by side, and says what was measured on real rows and what is a guess.
"""

from __future__ import annotations

from collections.abc import Mapping

from symsgd.data.twins.factors import Densities, FactorSpec
from symsgd.data.twins.onehot import Fields, OneHotSpec
from symsgd.data.twins.population import TwinSpec
from symsgd.data.twins.text import TextSpec

RCV1 = TextSpec(
    n_rows=781_265,
    n_features=47_153,
    mean_nonzeros=74.71,
    positive_share=0.47,
    n_words=47_153,
    n_slots=1 << 18,
    zipf_shift=124.0,
    zipf_exponent=1.55,
    n_topics=60,
    topic_sharpness=3.2,
    popularity_shift=2.0,
    topics_per_row=3,
    concentration=0.2,
    tokens_guess=104.0,
    tokens_spread=0.77,
    min_tokens=10,
    background=0.15,
    counts=False,
    planted_words=500,
    planted_strength=0.5,
    label_sharpness=5.5,
)

# All byte triples have a number, few of them occur.
WEBSPAM = TextSpec(
    n_rows=279_999,
    n_features=16_609_143,
    mean_nonzeros=3727.75,
    positive_share=0.61,
    chunk_rows=1_000,
    n_words=680_715,
    n_slots=1 << 20,
    zipf_shift=1800.0,
    zipf_exponent=1.95,
    n_topics=16,
    topic_sharpness=1.5,
    popularity_shift=2.0,
    topics_per_row=3,
    concentration=0.2,
    tokens_guess=7000.0,
    tokens_spread=0.6,
    min_tokens=100,
    background=0.4,
    counts=True,
    planted_words=2000,
    planted_strength=0.15,
    label_sharpness=40.0,
)

# Measured on 5,000 real rows: 63 features in more than 90 % of them, 139 in more than 10 %, many that come together.
URL = OneHotSpec(
    n_rows=1_677_282,
    n_features=3_231_961,
    positive_share=0.33,
    n_factors=12,
    fields=(
        Fields(count=9, missing=(0.0, 0.25), loading=0.6, numbers=True),
        Fields(count=4, missing=(0.4, 0.7), loading=0.6, numbers=True),
        Fields(count=32, missing=(0.9, 0.999), loading=0.6, numbers=True),
        Fields(count=55, missing=(0.0, 0.08), loading=0.8),
        Fields(count=11, missing=(0.1, 0.5), loading=0.8),
        Fields(count=10, missing=(0.2, 0.5), loading=0.97, together=True),
        Fields(count=12, missing=(0.74, 0.76), loading=0.97, together=True),
        Fields(count=16, missing=(0.85, 0.89), loading=0.95, together=True),
        Fields(count=10, missing=(0.55, 0.85), loading=0.8),
        *(Fields(count=20, missing=(0.93, 0.97), loading=0.95, together=True) for _ in range(5)),
        Fields(count=8, n_values=20_000, zipf_shift=5.0, zipf_exponent=1.2, loading=0.8),
        Fields(
            count=8, n_values=2_000_000, missing=(0.4, 0.4), zipf_shift=50.0, zipf_exponent=1.1, loading=0.9, bag=True
        ),
        Fields(
            count=15, n_values=1_071_702, missing=(0.5, 0.5), zipf_shift=50.0, zipf_exponent=1.1, loading=0.9, bag=True
        ),
    ),
    factor_strength=0.05,
    planted_values=100,
    planted_strength=1.0,
    label_sharpness=60.0,
)

_INTEGERS_MISSING = (0.45, 0.0, 0.21, 0.22, 0.03, 0.22, 0.04, 0.0, 0.04, 0.45, 0.04, 0.76, 0.22)

# Six identifiers, of more than 50,000 values each, have nearly all features.
_CATEGORIES = (
    # values, missing, q, s
    (1_300, 0.00, 0.0, 1.8),
    (550, 0.00, 0.0, 1.4),
    (460_000, 0.04, 20.0, 0.8),
    (160_000, 0.04, 20.0, 0.9),
    (300, 0.00, 0.0, 2.2),
    (20, 0.12, 0.0, 1.8),
    (11_000, 0.00, 30.0, 1.2),
    (600, 0.00, 0.0, 1.9),
    (3, 0.00, 0.0, 3.0),
    (40_000, 0.00, 0.0, 1.5),
    (5_000, 0.00, 20.0, 1.2),
    (400_000, 0.04, 20.0, 0.8),
    (3_100, 0.00, 20.0, 1.2),
    (27, 0.00, 0.0, 1.7),
    (11_500, 0.00, 20.0, 1.2),
    (190_000, 0.04, 20.0, 0.8),
    (10, 0.00, 0.0, 1.9),
    (4_500, 0.00, 15.0, 1.2),
    (2_000, 0.465, 0.0, 1.9),
    (4, 0.465, 0.0, 0.4),
    (320_000, 0.04, 20.0, 0.8),
    (17, 0.76, 0.0, 1.5),
    (15, 0.00, 0.0, 1.8),
    (53_821, 0.04, 10.0, 1.2),
    (90, 0.465, 0.0, 1.7),
    (40_000, 0.465, 0.0, 1.5),
)

CRITEO = OneHotSpec(
    n_rows=1_000_000,
    n_features=1_703_961,
    positive_share=0.256,
    n_factors=6,
    fields=(
        *(Fields(n_values=8, missing=(share, share), zipf_exponent=2.5) for share in _INTEGERS_MISSING),
        *(
            Fields(n_values=n_values, missing=(share, share), zipf_shift=shift, zipf_exponent=exponent, loading=0.7)
            for n_values, share, shift, exponent in _CATEGORIES
        ),
    ),
    factor_strength=1.0,
    planted_values=500,
    planted_strength=0.5,
    label_sharpness=1.45,
)

EPSILON = FactorSpec(
    n_rows=400_000,
    n_features=2_000,
    positive_share=0.5,
    chunk_rows=4_000,
    n_factors=40,
    decay=0.5,
    factor_share=0.6,
    label_sharpness=4.6,
)

ADCLICK = FactorSpec(
    n_rows=499_980,
    n_features=3_076,
    positive_share=0.2,
    chunk_rows=4_000,
    n_factors=16,
    decay=0.5,
    factor_share=0.4,
    common=0.7,
    densities=(Densities(200, 0.99, 0.999), Densities(1_897, 0.105, 0.653), Densities(979, 0.01, 0.095)),
    label_sharpness=1.06,
)

TWINS: Mapping[str, TwinSpec] = {
    "rcv1": RCV1,
    "adclick": ADCLICK,
    "epsilon": EPSILON,
    "url": URL,
    "criteo": CRITEO,
    "webspam": WEBSPAM,
}
