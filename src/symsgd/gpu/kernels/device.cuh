// What only the device has: instructions that C++ has no words for. tests/cuda_on_cpu.hpp has the same for a CPU.

#define SHARED_MEMORY(name) extern __shared__ __align__(16) unsigned char name[]

// What one block of threads writes and others read goes past the first-level caches, which know nothing of each other.
__device__ inline float load(const float* at) { return __ldcg(at); }
__device__ inline double load(const double* at) { return __ldcg(at); }
__device__ inline long long load(const long long* at) { return __ldcg(at); }
__device__ inline void store(float* at, float value) { __stcg(at, value); }
__device__ inline void store(double* at, double value) { __stcg(at, value); }

__device__ inline unsigned load_acquire(const unsigned* at) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}
__device__ inline void store_release(unsigned* at, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ inline void add_release(unsigned* at, unsigned value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// 64 bits at once, in no order with anything else
__device__ inline void store_relaxed(void* at, unsigned long long value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
__device__ inline unsigned long long load_relaxed(const void* at) {
    unsigned long long value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

__device__ inline void add_atomically(long long* at, long long amount) {
    atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(amount));
}
__device__ inline long long nearest(double value) { return __double2ll_rn(value); }

__device__ inline void fetch_ahead(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// From global to shared memory, under way until `wait_for_copies`: 16 bytes, or one number.
__device__ inline void copy_16(void* to, const void* from) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
template <class T>
__device__ inline void copy_one(T* to, const T* from) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(T)) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// e^x, 1 / x and √x: for float32 the device's own, to its last bits
__device__ inline float exponential(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504088896341f));
    return power;
}
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float inverse(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
__device__ inline double inverse(double x) { return 1.0 / x; }
__device__ inline float root(float x) {
    float result;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
__device__ inline double root(double x) { return sqrt(x); }
