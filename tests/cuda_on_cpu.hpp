// As much of CUDA as the kernels use, on a CPU: every thread of a launch is a thread, blocks and warps meet at barriers.
// Stands in for kernels/device.cuh. Slow, and made for a few small blocks.
#pragma once

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define SHARED_MEMORY(name) unsigned char* name = here->memory

using std::exp, std::fabs, std::log1p, std::memcpy, std::sqrt;
template <class T>
T min(T a, T b) {
    return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
    return a < b ? b : a;
}

struct Index {
    unsigned x;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

struct Block {
    Block(unsigned threads, std::size_t shared) : all(threads) {
        for (unsigned w = 0; w < threads / 32; ++w) warps.push_back(std::make_unique<std::barrier<>>(32));
        told.resize(threads);
        storage.resize(shared + 64);
        memory = storage.data() + (64 - reinterpret_cast<std::uintptr_t>(storage.data()) % 64);
    }
    std::barrier<> all;
    std::vector<std::unique_ptr<std::barrier<>>> warps;
    std::vector<double> told;
    std::vector<unsigned char> storage;
    unsigned char* memory;
};

inline thread_local Index threadIdx, blockIdx;
inline thread_local Block* here;
inline Index blockDim, gridDim;

inline void __syncthreads() { here->all.arrive_and_wait(); }
inline void __syncwarp() { here->warps[threadIdx.x / 32]->arrive_and_wait(); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

template <class T>
T of_lane(T value, unsigned lane) {
    here->told[threadIdx.x] = value;
    __syncwarp();
    const T found = static_cast<T>(here->told[threadIdx.x / 32 * 32 + lane]);
    __syncwarp();
    return found;
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
    return of_lane(value, static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    return of_lane(value, threadIdx.x % 32 ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_up_sync(unsigned, T value, int by) {
    const unsigned lane = threadIdx.x % 32, offset = static_cast<unsigned>(by);
    return of_lane(value, lane >= offset ? lane - offset : lane);
}

template <class T>
T load(const T* at) {
    return std::atomic_ref(*const_cast<T*>(at)).load(std::memory_order_relaxed);
}
template <class T>
void store(T* at, T value) {
    std::atomic_ref(*at).store(value, std::memory_order_relaxed);
}
inline unsigned load_acquire(const unsigned* at) {
    std::this_thread::yield();
    return std::atomic_ref(*const_cast<unsigned*>(at)).load(std::memory_order_acquire);
}
inline void store_release(unsigned* at, unsigned value) {
    std::atomic_ref(*at).store(value, std::memory_order_release);
}
inline void add_release(unsigned* at, unsigned value) {
    std::atomic_ref(*at).fetch_add(value, std::memory_order_release);
}
inline void store_relaxed(void* at, unsigned long long value) {
    std::atomic_ref(*static_cast<unsigned long long*>(at)).store(value, std::memory_order_relaxed);
}
inline unsigned long long load_relaxed(const void* at) {
    std::this_thread::yield();
    auto* word = const_cast<unsigned long long*>(static_cast<const unsigned long long*>(at));
    return std::atomic_ref(*word).load(std::memory_order_relaxed);
}
inline void add_atomically(long long* at, long long amount) {
    std::atomic_ref(*at).fetch_add(amount, std::memory_order_relaxed);
}
inline long long nearest(double value) { return std::llrint(value); }

inline void fetch_ahead(const void*) {}
inline void copy_16(void* to, const void* from) { std::memcpy(to, from, 16); }
template <class T>
void copy_one(T* to, const T* from) {
    *to = *from;
}
inline void commit_copies() {}
inline void wait_for_copies() {}

template <class T>
T exponential(T x) {
    return std::exp(x);
}
template <class T>
T inverse(T x) {
    return T(1) / x;
}
template <class T>
T root(T x) {
    return std::sqrt(x);
}

// Runs a kernel; `pass` is its argument.
template <class Kernel>
void launch(Kernel&& kernel, unsigned blocks, unsigned threads, std::size_t shared) {
    gridDim = {blocks};
    blockDim = {threads};
    std::vector<std::unique_ptr<Block>> made;
    std::vector<std::thread> running;
    for (unsigned b = 0; b < blocks; ++b) {
        made.push_back(std::make_unique<Block>(threads, shared));
        for (unsigned t = 0; t < threads; ++t)
            running.emplace_back([&kernel, block = made.back().get(), b, t] {
                here = block;
                blockIdx = {b};
                threadIdx = {t};
                kernel();
            });
    }
    for (std::thread& each : running) each.join();
}
