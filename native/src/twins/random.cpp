#include "symsgd/twins/random.hpp"

namespace symsgd {

// Layer i reaches from height[i] up to height[i + 1] and has the width at its foot; the lowest is as wide as a layer of
// its area without a tail would be.
Ziggurat::Ziggurat() {
    const auto density = [](double x) { return std::exp(-0.5 * x * x); };
    const double beyond = std::sqrt(0.5 * 3.141592653589793) * std::erfc(tail / std::sqrt(2.0));
    const double area = tail * density(tail) + beyond;
    width[0] = area / density(tail);
    width[1] = tail;
    for (int i = 2; i < layers; ++i) width[i] = std::sqrt(-2.0 * std::log(density(width[i - 1]) + area / width[i - 1]));
    width[layers] = 0.0;
    for (int i = 0; i <= layers; ++i) height[i] = density(width[i]);
    for (int i = 0; i < layers; ++i) inner[i] = width[i + 1] / width[i];
}

const Ziggurat ziggurat;

double Random::beyond_inner(int layer, double u) {
    if (layer == 0) {  // Marsaglia's tail
        double x, y;
        do {
            x = -std::log(uniform()) / Ziggurat::tail;
            y = -std::log(uniform());
        } while (2 * y < x * x);
        return u < 0 ? -Ziggurat::tail - x : Ziggurat::tail + x;
    }
    const double x = u * ziggurat.width[layer];
    const double low = ziggurat.height[layer], high = ziggurat.height[layer + 1];
    return low + uniform() * (high - low) < std::exp(-0.5 * x * x) ? x : normal();
}

// Marsaglia and Tsang: d (1 + c x)³ with x normal, kept with the probability that makes it gamma of shape d + 1/3; a
// shape below 1 from that of shape + 1, times u^{1/shape}.
double Random::gamma(double shape) {
    if (shape < 1) return gamma(shape + 1) * std::pow(uniform(), 1 / shape);
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
        const double x = normal(), root = 1 + c * x;
        if (root <= 0) continue;
        const double v = root * root * root, u = uniform();
        if (u < 1 - 0.0331 * x * x * x * x || std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
    }
}

}  // namespace symsgd
