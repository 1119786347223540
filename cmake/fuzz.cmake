# One executable a target. With libFuzzer where the compiler has it (clang), else with a main of our own that changes
# seeds at random (native/fuzz/mutate.cpp).
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
check_cxx_source_compiles([[
  #include <cstddef>
  #include <cstdint>
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t) { return 0; }
]] SYMSGD_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)

set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
if(SYMSGD_LIBFUZZER)
  list(APPEND sanitizers -fsanitize=fuzzer)
else()
  set(fuzz_main native/fuzz/mutate.cpp)
endif()

# the readers of text, and what a store is trusted by
set(fuzz_svmlight ${text_sources})
set(fuzz_vowpal ${text_sources})
set(fuzz_mapping native/src/mapping.cpp)
set(fuzz_rows native/src/check.cpp)

foreach(target svmlight vowpal mapping rows)
  add_executable(fuzz_${target} native/fuzz/${target}.cpp ${fuzz_main} ${fuzz_${target}})
  target_include_directories(fuzz_${target} PRIVATE native/include)
  target_compile_options(fuzz_${target} PRIVATE -O1 -g1 -Wall -Wextra ${sanitizers})
  target_compile_definitions(fuzz_${target} PRIVATE _GLIBCXX_SANITIZE_VECTOR)
  target_link_options(fuzz_${target} PRIVATE ${sanitizers})
  target_link_libraries(fuzz_${target} PRIVATE Threads::Threads)
endforeach()
