// Package packaging holds what an installation is made of: the unit of systemd, its
// configuration, the scripts that run when a package is installed or removed, and how
// nfpm makes a deb and an rpm of them. The Dockerfile is in the root, where docker looks.
//
// check.sh runs the result, as make package-check; the tests here hold the configuration
// against the settings that the broker knows.
package packaging
