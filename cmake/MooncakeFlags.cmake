# Compiler settings for every target of ours: C11, warnings, hardening, sanitizers.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# Asserts of ours do not depend on NDEBUG; libraries' own may go.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g -DNDEBUG")

add_library(mc_flags INTERFACE)
target_compile_definitions(mc_flags INTERFACE _GNU_SOURCE MC_VERSION="${PROJECT_VERSION}")
target_compile_options(mc_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion
  -Wsign-conversion -Wcast-qual -Wvla -Wundef -Wformat=2 -Wswitch-enum -Wpointer-arith
  -Wwrite-strings -Wold-style-definition -Wno-format-nonliteral
  -fno-omit-frame-pointer -fstack-protector-strong -fstack-clash-protection)
target_link_options(mc_flags INTERFACE -Wl,-z,relro,-z,now)
if(MC_WERROR)
  target_compile_options(mc_flags INTERFACE -Werror)
endif()
if(CMAKE_BUILD_TYPE MATCHES "Rel" AND NOT MC_SANITIZE)
  target_compile_options(mc_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
if(MC_SANITIZE)
  add_compile_options(-fsanitize=${MC_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MC_SANITIZE})
endif()
