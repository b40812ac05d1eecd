// Lets the compiler take functions without a body: revisions.go has some that are linked by name.
