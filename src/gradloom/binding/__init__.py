"""What joins the floors when gradloom is imported: operators become methods, and the core gets what it calls late."""
