// Package docs holds the documentation, and tests that keep it true: variables, routes,
// rules and links are compared with the source, and the commands that a reader is invited
// to try are sent to a broker.
package docs
