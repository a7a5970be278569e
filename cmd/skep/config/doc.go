// Package config reads what skep serve is told by its environment and its flags.
//
// [settings] is the one table of all there is to set: a line has the names, the default,
// what is allowed, what it means and where the value goes. Reading, checking, flags and
// their help, `skep config`, the line of log at a start and the table in
// docs/configuration.md are all made from it, so a new setting is one entry.
//
// Load applies the defaults, then the environment, then flags. It stops at the first value
// that is not allowed: a broker that guesses what was meant is worse than one that does not
// start. What the environment holds beside, of Skep or of other brokers with the same API,
// has no effect and is told apart in [Remarks]: names that nobody knows are most often
// misspelt.
package config
