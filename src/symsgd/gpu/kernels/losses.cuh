// The losses: ℓ(p, y) and g = ∂ℓ/∂p, as in the CPU's core. LOSS_KIND is one of them.

#define LOG_LOSS 0
#define HINGE 1
#define PERCEPTRON 2
#define SQUARED_HINGE 3
#define MODIFIED_HUBER 4
#define SQUARED_ERROR 5
#define HUBER 6
#define EPSILON_INSENSITIVE 7
#define SQUARED_EPSILON_INSENSITIVE 8

constexpr Real largest_gradient = Real(1e12);

__device__ inline Real clipped(Real g) { return min(max(g, -largest_gradient), largest_gradient); }

// `epsilon` is the loss's parameter, where it has one.
__device__ inline Real gradient(Real p, Real y, Real epsilon) {
#if LOSS_KIND == LOG_LOSS
    return -y * inverse(Real(1) + exponential(y * p));  // 1 / ∞ is 0
#elif LOSS_KIND == HINGE
    return y * p <= Real(1) ? -y : Real(0);
#elif LOSS_KIND == PERCEPTRON
    return y * p <= Real(0) ? -y : Real(0);
#elif LOSS_KIND == SQUARED_HINGE
    return clipped(Real(-2) * y * max(Real(0), Real(1) - y * p));
#elif LOSS_KIND == MODIFIED_HUBER
    const Real z = y * p;
    return z < Real(-1) ? Real(-4) * y : Real(-2) * y * max(Real(0), Real(1) - z);
#elif LOSS_KIND == SQUARED_ERROR
    return clipped(p - y);
#elif LOSS_KIND == HUBER
    return min(max(p - y, -epsilon), epsilon);
#elif LOSS_KIND == EPSILON_INSENSITIVE
    const Real r = p - y;
    return r > epsilon ? Real(1) : (r < -epsilon ? Real(-1) : Real(0));
#elif LOSS_KIND == SQUARED_EPSILON_INSENSITIVE
    const Real r = p - y, excess = fabs(r) - epsilon;
    return excess > Real(0) ? clipped((r > Real(0) ? Real(2) : Real(-2)) * excess) : Real(0);
#endif
}

__device__ inline Real loss_value(Real p, Real y, Real epsilon) {
#if LOSS_KIND == LOG_LOSS
    const Real z = y * p;
    return max(-z, Real(0)) + log1p(exp(-fabs(z)));
#elif LOSS_KIND == HINGE
    return max(Real(0), Real(1) - y * p);
#elif LOSS_KIND == PERCEPTRON
    return max(Real(0), -y * p);
#elif LOSS_KIND == SQUARED_HINGE
    const Real m = max(Real(0), Real(1) - y * p);
    return m * m;
#elif LOSS_KIND == MODIFIED_HUBER
    const Real z = y * p, m = max(Real(0), Real(1) - z);
    return z < Real(-1) ? Real(-4) * z : m * m;
#elif LOSS_KIND == SQUARED_ERROR
    const Real r = p - y;
    return Real(0.5) * r * r;
#elif LOSS_KIND == HUBER
    const Real size = fabs(p - y);
    return size <= epsilon ? Real(0.5) * size * size : epsilon * size - Real(0.5) * epsilon * epsilon;
#elif LOSS_KIND == EPSILON_INSENSITIVE
    return max(Real(0), fabs(p - y) - epsilon);
#elif LOSS_KIND == SQUARED_EPSILON_INSENSITIVE
    const Real excess = max(Real(0), fabs(p - y) - epsilon);
    return excess * excess;
#endif
}
