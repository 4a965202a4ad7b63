# Debian packages, one a component, made by tools/package: what is in each, what it needs, and its
# scripts (deploy/debian). The files of services go into packages only, not into a plain install.

option(MC_PACKAGE "Install the files of services, as packages need them" OFF)

if(MC_PACKAGE)
  foreach(daemon master store)
    install(FILES deploy/systemd/mooncake-${daemon}.service DESTINATION lib/systemd/system
      COMPONENT ${daemon})
    install(FILES deploy/config/one-host/${daemon}.json DESTINATION /etc/mooncake
      COMPONENT ${daemon})
  endforeach()
  # The serving process of thin clients comes with the store, which it is with other options.
  install(FILES deploy/systemd/mooncake-client.service DESTINATION lib/systemd/system
    COMPONENT store)
  install(FILES deploy/config/one-host/client.json DESTINATION /etc/mooncake COMPONENT store)
  foreach(pair master:mooncake-master store:mooncake-store client:libmooncake-client1
      dev:libmooncake-client-dev tools:mooncake-tools python:python3-mooncake)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 component)
    list(GET pair 1 package)
    install(FILES LICENSE DESTINATION share/doc/${package} RENAME copyright
      COMPONENT ${component})
    install(FILES CHANGELOG.md DESTINATION share/doc/${package} COMPONENT ${component})
    string(TOUPPER ${component} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
    list(APPEND CPACK_COMPONENTS_ALL ${component})
  endforeach()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON) # some files have absolute places
set(CPACK_PACKAGE_CONTACT "The Mooncake authors <mooncake@example.net>")
set(CPACK_PACKAGE_VENDOR "Mooncake")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src/client)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "https://example.net/mooncake")

set(debian ${PROJECT_SOURCE_DIR}/deploy/debian)
set(this_library "libmooncake-client1 (= ${PROJECT_VERSION})")

set(CPACK_COMPONENT_MASTER_DESCRIPTION "Mooncake pool: master daemon
 The master of a pool of cluster memory for the KV cache of LLM inference:
 it knows where each object is. Bytes never pass through it.")
set(CPACK_DEBIAN_MASTER_PACKAGE_SECTION net)
set(CPACK_DEBIAN_MASTER_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_MASTER_PACKAGE_CONTROL_EXTRA
  ${debian}/master/conffiles ${debian}/master/postinst ${debian}/master/prerm
  ${debian}/master/postrm)

set(CPACK_COMPONENT_STORE_DESCRIPTION "Mooncake pool: store daemon
 Lends memory of this host to a pool, over TCP, RDMA and, on the same host,
 shared memory.")
set(CPACK_DEBIAN_STORE_PACKAGE_SECTION net)
set(CPACK_DEBIAN_STORE_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_STORE_PACKAGE_RECOMMENDS "ibverbs-providers, librdmacm1")
set(CPACK_DEBIAN_STORE_PACKAGE_CONTROL_EXTRA
  ${debian}/store/conffiles ${debian}/store/postinst ${debian}/store/prerm ${debian}/store/postrm)

set(CPACK_COMPONENT_CLIENT_DESCRIPTION "Mooncake pool: client library
 Puts, gets and removes objects of a Mooncake pool.")
set(CPACK_DEBIAN_CLIENT_PACKAGE_SECTION libs)

set(CPACK_COMPONENT_DEV_DESCRIPTION "Mooncake pool: headers of the client library
 Headers, static library, pkg-config and CMake files of libmooncake_client.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${this_library}, libuv1-dev, libprotobuf-c-dev, libxxhash-dev")

set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Mooncake pool: mooncakectl and mooncake_bench
 Looks at a pool, steers it, and measures it.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION net)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${this_library}")

set(CPACK_COMPONENT_PYTHON_DESCRIPTION "Mooncake pool: Python package
 The package mooncake, with the names that SGLang, vLLM and LMCache import.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${this_library}, python3 (>= 3.11)")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${debian}/python/postinst ${debian}/python/prerm)

include(CPack)
